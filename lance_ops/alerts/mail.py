"""E-mail: send an alert to a mail server with a time limit, and report refused recipients."""

import contextlib
import smtplib
import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from urllib.parse import unquote, urlsplit

from lance_ops.alerts.in_time import InTime, OutOfTimeError
from lance_ops.errors import AlertNotDeliveredError

_TIMEOUT = 10.0
_SECONDS = 30.0
_CALLS = InTime("the mail server", _SECONDS)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class MailServer:
    """Address of a mail server.

    Attributes:
        scheme: "smtp" or "smtps".
        host: Host name.
        port: None for the default of the scheme.
        user: None without authentication.
        password: Of the user.
    """

    scheme: str
    host: str
    port: int | None
    user: str | None
    password: str | None

    @classmethod
    def parse(cls, url: str) -> "MailServer":
        """Parse `smtp://user:password@host:port`.

        Raises:
            AlertNotDeliveredError: The URL has another form; the message does not quote it, as it may hold a
                password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            # Python's message about such a URL quotes a part of the password.
            host = port = None
        if host is None or parts.scheme not in ("smtp", "smtps"):
            raise AlertNotDeliveredError(
                "e-mail requires a URL such as smtp://user:${PASSWORD}@host:587",
                hint="percent-encode the characters / : @ # ? [ and % in user and password",
            )
        user, password = parts.username, parts.password
        return cls(
            parts.scheme,
            host,
            port,
            None if user is None else unquote(user),
            None if password is None else unquote(password),
        )


def hand_in(mail: EmailMessage, server: MailServer, *, seconds: float = _SECONDS) -> str:
    """Send a mail through a server.

    Args:
        mail: The mail.
        server: The server.
        seconds: Time limit of the whole call.

    Returns:
        The refused recipients when others were accepted; empty when all were accepted.

    Raises:
        AlertNotDeliveredError: No recipient was accepted, or the outcome is unknown.
    """
    try:
        refused = _CALLS.call(lambda: _converse(mail, server), seconds)
    except OutOfTimeError as error:
        raise AlertNotDeliveredError(
            f"the mail server at {server.host} did not accept the mail: no answer within {seconds:g} s"
        ) from error
    except (OSError, smtplib.SMTPException) as error:
        raise AlertNotDeliveredError(
            f"the mail server at {server.host} did not accept the mail: {_said(error)}"
        ) from error
    if not refused:
        return ""
    lines = "; ".join(f"{who} ({code} {_text(said)})" for who, (code, said) in refused.items())
    return f"the mail server at {server.host} refused {lines}; the other recipients were accepted"


def _converse(mail: EmailMessage, place: MailServer) -> dict[str, tuple[int, bytes]]:
    context = ssl.create_default_context()
    server = _connected(place, context)
    try:
        server.ehlo()
        safe = place.scheme == "smtps" or place.host in _LOOPBACK
        if place.scheme == "smtp" and server.has_extn("starttls"):
            server.starttls(context=context)
            safe = True
        if place.user is not None:
            if not safe:
                raise AlertNotDeliveredError(
                    f"{place.host} offers no encryption, and a password is not sent without it"
                )
            server.login(place.user, place.password or "")
        refused = server.send_message(mail)
        # The mail is accepted: an error while the connection closes changes nothing.
        with contextlib.suppress(OSError, smtplib.SMTPException):
            server.quit()
        return refused
    finally:
        server.close()


def _connected(place: MailServer, context: ssl.SSLContext) -> smtplib.SMTP:
    if place.scheme == "smtps":
        return smtplib.SMTP_SSL(place.host, place.port or 465, timeout=_TIMEOUT, context=context)
    return smtplib.SMTP(place.host, place.port or 25, timeout=_TIMEOUT)


def _said(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        answers = error.recipients.items()
        return "refused " + "; ".join(f"{who} ({code} {_text(said)})" for who, (code, said) in answers)
    return str(error) or type(error).__name__


def _text(said: bytes | str) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said
