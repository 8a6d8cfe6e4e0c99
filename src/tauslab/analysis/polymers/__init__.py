"""Bead chains beside lattices: `tauslab.Polymer` moves them, `tauslab.BeadTrack` reads them."""
