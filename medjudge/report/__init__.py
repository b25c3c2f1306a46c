"""Usability rates, the leaderboard, and the HTML page."""
