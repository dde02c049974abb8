"""What the app adds to its search and its model, beside two baselines."""
