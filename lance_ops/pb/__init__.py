"""Protobuf modules generated from `protos/`; never edited by hand."""
