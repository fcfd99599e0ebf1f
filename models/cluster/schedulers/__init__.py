"""Who runs when: one file for each scheduler, and yours beside them, as `scheduler = "my.py:Mine"`."""
