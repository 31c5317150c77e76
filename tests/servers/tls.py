"""A Redis that speaks TLS only, with a certificate authority made for the occasion."""

import datetime as dt
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.servers.process import ServerProcess
from tests.servers.server import Redis7, Server


@dataclass(frozen=True)
class Certificates:
    """Files a TLS server and its clients need."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def write(cls, folder: Path) -> "Certificates":
        """Makes an authority and one certificate for 127.0.0.1 that it has signed."""
        folder.mkdir(parents=True, exist_ok=True)
        authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        authority = _certificate(
            "relevo test authority", authority_key, "relevo test authority", authority_key, ca=True
        )
        server = _certificate("127.0.0.1", server_key, "relevo test authority", authority_key, ca=False)
        files = cls(folder / "authority.pem", folder / "server.pem", folder / "server.key")
        files.authority.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
        files.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
        files.key.write_bytes(
            server_key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return files


def _certificate(
    subject: str,
    subject_key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(subject_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(subject_key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if ca:
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    else:
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


class TlsRedis(Server):
    """Redis 7 behind TLS; `url` is `rediss://` and names the authority to trust. `untrusting_url` does not."""

    name = "tls_redis"

    def __init__(self, *, appendonly: bool = False, settings: Mapping[str, str] | None = None) -> None:
        self.process = ServerProcess(Redis7.binary())
        self.certificates = Certificates.write(self.process.folder / "tls")
        persistence = {"appendonly": "yes", "appendfsync": "always"} if appendonly else {}
        self.process.configure(
            {
                "port": "0",
                "tls-cert-file": f'"{self.certificates.certificate}"',
                "tls-key-file": f'"{self.certificates.key}"',
                "tls-ca-cert-file": f'"{self.certificates.authority}"',
                "tls-auth-clients": "no",
                **persistence,
                **(settings or {}),
            },
            tls={"ssl_ca_certs": str(self.certificates.authority)},
        )

    @property
    def url(self) -> str:
        return f"{self.untrusting_url}?ssl_ca_certs={quote(str(self.certificates.authority))}"

    @property
    def untrusting_url(self) -> str:
        """Without the authority: a client that checks certificates refuses this server."""
        return f"rediss://127.0.0.1:{self.process.port}"

    @property
    def processes(self) -> tuple[ServerProcess, ...]:
        return (self.process,)

    def start(self) -> None:
        self.process.start()
