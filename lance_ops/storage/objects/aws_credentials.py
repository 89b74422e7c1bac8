"""AWS credentials from wherever AWS tools look for them, through botocore.

obstore by itself knows options, the environment, web identities and metadata services; profiles, SSO and
processes that print credentials are known to botocore only, which comes with s3fs.
"""

import importlib.util
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lance_ops.errors import InvalidArgumentError
from lance_ops.storage.fork_safe import new_lock

PROFILE_OPTION = "aws_profile"
"""Storage option that names a profile of `~/.aws`; `AWS_PROFILE` in the environment does so, too."""

# botocore renews what expires at least ten minutes before its time; what does not may be rotated by others.
_ASK_AGAIN = timedelta(minutes=5)
_KEYS = frozenset({"access_key_id", "secret_access_key", "session_token", "token"})
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


class BotocoreCredentials:
    """Finds credentials when the first request needs them, and again before they expire.

    Picklable: an executor looks on its own machine.

    Args:
        profile: Name of a profile of `~/.aws`; None for what the environment says.
    """

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self._lock = new_lock()
        self._found: Any = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[object, ...]:
        return (BotocoreCredentials, (self._profile,))

    def __call__(self) -> dict[str, Any]:
        """Return the credentials of now as obstore wants them."""
        with self._lock:
            # Those of a process that forked have locks of their own, which nobody may release here.
            forked = self._process != os.getpid()
            if forked or self._found is None or not hasattr(self._found, "refresh_needed"):
                self._process = os.getpid()
                self._found = _session(self._profile).get_credentials()
            if self._found is None:
                raise LookupError(
                    "no AWS credentials in the storage options, the environment, the profile "
                    f"{self._profile or os.environ.get('AWS_PROFILE') or 'default'!r} of ~/.aws (keys, SSO, "
                    "process), a web identity, or the metadata of container and instance; for a public "
                    'bucket set aws_skip_signature to "true"'
                )
            keys = self._found.get_frozen_credentials()
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.token,
            "expires_at": datetime.now(UTC) + _ASK_AGAIN,
        }

    def region(self) -> str | None:
        """Return the region that the profile names.

        Raises:
            InvalidArgumentError: There is no such profile, or its file cannot be read.
        """
        from botocore.exceptions import BotoCoreError

        try:
            region = _session(self._profile).get_config_variable("region")
        except BotoCoreError as error:
            raise InvalidArgumentError(
                f"the AWS profile does not work: {error}", field=PROFILE_OPTION, hint="see ~/.aws/config"
            ) from None
        return str(region) if region else None


def find_credentials(options: Mapping[str, str]) -> BotocoreCredentials | None:
    """Decide who looks for credentials.

    Args:
        options: Storage options of an S3 store.

    Returns:
        None where the options hold keys or ask for none, and where obstore finds those of the environment.

    Raises:
        InvalidArgumentError: The options name a profile, and botocore is not installed.
    """
    short = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    if _KEYS & short.keys() or short.get("skip_signature", "").lower() in {"true", "1", "yes", "on"}:
        return None
    profile = short.get("profile")
    if profile is None and os.environ.get("AWS_ACCESS_KEY_ID"):
        return None
    if importlib.util.find_spec("botocore") is None:
        if profile is None:
            return None
        raise InvalidArgumentError(
            "a profile of ~/.aws needs botocore", field=PROFILE_OPTION, hint="pip install 'lance-ops[s3]'"
        )
    return BotocoreCredentials(profile)


def names_region(options: Mapping[str, str]) -> bool:
    """Say whether options or environment name a region."""
    named = {name.lower().removeprefix("aws_") for name in options} & {"region", "default_region"}
    return bool(named) or any(os.environ.get(name) for name in _REGION_VARIABLES)


def _session(profile: str | None) -> Any:
    # Imported on demand: it takes a while, and most processes have their keys elsewhere.
    from botocore.session import Session

    return Session(profile=profile)
