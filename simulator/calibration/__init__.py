"""Probe records -> a named calibration: parameters fitted to measured times, and how sure they are."""

from simulator.calibration.drift import steadied
from simulator.calibration.fit import calibrate, host_profile
from simulator.calibration.form import Form, form_of
from simulator.calibration.timed import Predictor

__all__ = ["Form", "Predictor", "calibrate", "form_of", "host_profile", "steadied"]
