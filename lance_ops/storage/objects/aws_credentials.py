"""AWS credentials from all sources of AWS tools, through botocore.

obstore supports options, the environment, web identities and metadata services; profiles, SSO and credential
processes need botocore, which is a dependency of s3fs.
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
    """Credential provider that loads credentials on the first request, and again before they expire.

    Picklable: an executor loads those of its own machine.

    Args:
        profile: Name of a profile of `~/.aws`; None for the environment.
    """

    def __init__(self, profile: str | None = None) -> None:
        self._profile = profile
        self._lock = new_lock()
        self._found: Any = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[object, ...]:
        return (BotocoreCredentials, (self._profile,))

    def __call__(self) -> dict[str, Any]:
        """Return the current credentials for obstore."""
        with self._lock:
            # Locks of the parent process cannot be released after a fork.
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
    """Choose the credential provider.

    Args:
        options: Storage options of an S3 store.

    Returns:
        None if the options have keys or disable signing, or if obstore finds credentials in the environment.

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
    """Return whether options or environment set a region."""
    named = {name.lower().removeprefix("aws_") for name in options} & {"region", "default_region"}
    return bool(named) or any(os.environ.get(name) for name in _REGION_VARIABLES)


def _session(profile: str | None) -> Any:
    # Imported on demand: it takes a while, and most processes have their keys elsewhere.
    from botocore.session import Session

    return Session(profile=profile)
