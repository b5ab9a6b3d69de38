"""Experiments: a frozen scenario in, a result out, progress on the way. One file per lesson."""
