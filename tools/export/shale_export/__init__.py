"""Parts of export.py and tokens.py."""
