"""Command on unfinished jobs: list, resume or cancel them."""

import click

from lance_ops.cli.command import Call, dataset_command
from lance_ops.cli.options import spark_option


@click.command("jobs", short_help="Unfinished jobs: list, resume, cancel.")
@click.argument("uri")
@click.option("--resume", metavar="KEY", help="Resume this job with its original options.")
@click.option(
    "--cancel", metavar="KEY", help="Cancel this job; its process stops and removes uncommitted files."
)
@click.option(
    "--break", "broken", metavar="KEY", help="Cancel this job at once, even if it seems to be running."
)
@spark_option
@dataset_command
def jobs_command(
    call: Call, *, resume: str | None, cancel: str | None, broken: str | None, spark: str | None
) -> None:
    """List the jobs of URI that have begun and not ended, or resume or cancel one.

    A compaction with --job-key is such a job. Exit code 1 when a resumed one failed in part.
    """
    from lance_ops.cli.output import print_rows
    from lance_ops.maintenance.compact.operation import resume_job
    from lance_ops.maintenance.jobs.operation import cancel_job, list_jobs
    from lance_ops.maintenance.text import bytes_text

    if sum(key is not None for key in (resume, cancel, broken)) > 1:
        raise click.UsageError("use only one of --resume, --cancel and --break")
    if spark is not None and resume is None:
        raise click.UsageError("--spark requires --resume")
    if resume is not None:
        with call.running(spark) as run:
            result = resume_job(call.uri, resume, **run)
        call.show(result)
        if not result.complete:
            raise click.exceptions.Exit(1)
        return
    key = cancel or broken
    if key is not None:
        force = broken is not None
        ended = cancel_job(call.uri, key, force=force, storage_options=call.storage_options)
        text = f"job {key} has ended" if ended else f"job {key} was asked to stop"
        call.show({"job": key, "ended": ended} if call.as_json else text)
        return
    jobs = list_jobs(call.uri, storage_options=call.storage_options)
    if call.as_json:
        call.show(jobs)
        return
    if not jobs:
        call.show("no unfinished jobs")
        return
    print_rows(
        ("job", "operation", "state", "groups", "read", "last heartbeat"),
        [
            (
                job.key,
                job.operation,
                job.state,
                f"{job.groups_done:,} of {job.groups_total:,}",
                f"{bytes_text(job.bytes_done)} of {bytes_text(job.bytes_total)}",
                f"{job.last_word:%Y-%m-%d %H:%M:%S}Z",
            )
            for job in jobs
        ],
    )
