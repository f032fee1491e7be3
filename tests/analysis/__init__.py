"""Tests of the analyzer."""
