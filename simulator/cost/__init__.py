"""What a step costs: pure functions of shapes and calibrations. No state, no randomness, no files.

Every argument may be an array; they broadcast against each other, and the planner's search runs on that.
"""
