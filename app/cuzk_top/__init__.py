"""The viewer: live timelines, replay, reports and the command line."""
