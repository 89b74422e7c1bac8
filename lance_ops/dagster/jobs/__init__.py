"""Operations as jobs: config, runs, failures, schedules."""
