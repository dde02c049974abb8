"""The hook of azd that makes the package of the reader of uploads."""
