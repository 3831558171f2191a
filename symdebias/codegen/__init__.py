"""From SymPy expressions to compiled functions: a service that knows no loss and no mechanism."""
