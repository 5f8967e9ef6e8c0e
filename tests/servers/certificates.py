"""A certificate for loopback servers that nobody but the test trusts."""

import ssl
import subprocess
from pathlib import Path

import msgspec


class LoopbackCertificate(msgspec.Struct, frozen=True):
    """A self-signed certificate for 127.0.0.1 and localhost."""

    path: Path

    @classmethod
    def make(cls, folder: Path) -> "LoopbackCertificate":
        """Make one in `folder`."""
        path = folder / "loopback.pem"
        request = (
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
        )
        names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        files = ["-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
        subprocess.run(["openssl", *request.split(), *names, *files], check=True, capture_output=True)
        path.write_text(path.read_text() + path.with_suffix(".crt").read_text())
        return cls(path)

    def server_context(self) -> ssl.SSLContext:
        """What a server shows it with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.path)
        return context

    def trusting_context(self) -> ssl.SSLContext:
        """What a client trusts it with."""
        return ssl.create_default_context(cafile=str(self.path.with_suffix(".crt")))
