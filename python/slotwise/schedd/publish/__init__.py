"""The schedd's ads and statistics, and advertising them."""
