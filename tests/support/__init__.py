"""What the tests share: fakes, servers, sample data."""
