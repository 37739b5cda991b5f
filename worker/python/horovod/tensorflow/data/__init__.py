"""Datasets that other processes than the ranks of a training prepare."""
