"""Operations as jobs: their config, their runs, their failures, and when they start by themselves."""
