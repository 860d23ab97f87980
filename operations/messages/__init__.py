"""Messages on their way in: checked, normalized, stored in the inbox."""
