"""From observations to a session: pure functions of what was recorded."""
