"""Tests of the page in a real browser: `TEST_BROWSER=/usr/bin/chromium make test-browser`."""
