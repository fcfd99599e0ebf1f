"""The schema: a class for each table of a config, with its keys, their types, defaults and meanings."""
