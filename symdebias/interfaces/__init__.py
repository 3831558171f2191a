"""Users' habits: the command line, pictures and data sets. Optional packages are imported here."""
