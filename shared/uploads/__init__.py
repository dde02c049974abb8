"""Documents that users upload: each belongs to the one who did."""
