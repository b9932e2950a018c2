"""What export.py and tokens.py are made of."""
