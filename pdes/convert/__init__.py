"""Configs made from other simulators' inputs, one module per simulator. They only translate; they read no traffic."""
