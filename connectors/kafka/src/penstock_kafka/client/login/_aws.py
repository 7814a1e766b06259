"""Tokens for Amazon MSK with IAM, signed by Amazon's library."""

from __future__ import annotations

import os
from collections.abc import Mapping

from penstock.errors import BadConfigurationError, RetriableError
from penstock.tokens import Token, TokenProvider

__all__ = ["AwsMskIamTokens"]

_INSTALL = "pip install 'penstock-kafka[aws]'"
_KNOWN = ("region", "profile", "role_arn", "role_session_name")


class AwsMskIamTokens(TokenProvider):
    """Signs with the credentials that AWS's own tools would find, those of ``profile``, or those of a role.

    ``settings``: ``region`` (else the brokers' names, AWS_REGION or AWS_DEFAULT_REGION say it), ``profile``,
    ``role_arn`` and ``role_session_name``.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
        except ImportError:
            raise BadConfigurationError(f"MSK IAM needs aws-msk-iam-sasl-signer-python: {_INSTALL}") from None
        refuse_unknown(settings, _KNOWN)
        self._settings = dict(settings)
        self._signer = MSKAuthTokenProvider
        region = settings.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not region:
            raise BadConfigurationError(
                "MSK IAM needs a region: write kafka.sasl.oauthbearer.config as region=eu-central-1, or set AWS_REGION"
            )
        self._region = region

    def token(self) -> Token:
        """Signs a request to connect, good for 15 minutes."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        given, signer = self._settings, self._signer
        try:
            if role := given.get("role_arn"):
                session = given.get("role_session_name") or "penstock"
                value, ends_ms = signer.generate_auth_token_from_role_arn(self._region, role, session)
            elif profile := given.get("profile"):
                value, ends_ms = signer.generate_auth_token_from_profile(self._region, profile)
            else:
                value, ends_ms = signer.generate_auth_token(self._region)
        except HTTPClientError as error:
            raise RetriableError(f"AWS gives no credentials for MSK: {error}") from None
        except (BotoCoreError, ClientError, ValueError, AttributeError) as error:
            # Where there are no credentials at all, the library looks into None.
            why = "there are none" if isinstance(error, AttributeError) else error
            raise BadConfigurationError(
                f"AWS gives no credentials for MSK: {why}: look at kafka.sasl.oauthbearer.config, or at the "
                "credentials of this machine (AWS_ACCESS_KEY_ID, AWS_PROFILE, the instance's role)"
            ) from None
        return Token(value, ends_ms / 1000)


def refuse_unknown(settings: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises BadConfigurationError for a setting that a vendor's provider does not have."""
    if unknown := sorted(settings.keys() - set(known)):
        raise BadConfigurationError(
            f"option 'kafka.sasl.oauthbearer.config' has '{unknown[0]}', which is none of {', '.join(known)}"
        )
