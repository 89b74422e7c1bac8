"""Survey: looks at many datasets, the one that was not looked at for longest first."""
