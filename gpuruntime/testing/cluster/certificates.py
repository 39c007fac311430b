"""The keys and certificates of a local cluster, issued by its own certificate authority."""

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Self

from attrs import frozen
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpuruntime.testing.cluster.pki import KUBELET_CLIENT, KeyPair, Pki

__all__ = ["Authority", "issue_pki"]

_LIFETIME = dt.timedelta(days=365)
_SKEW = dt.timedelta(minutes=5)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


@frozen
class Authority:
    """A certificate authority whose files are in one directory."""

    directory: Path
    files: KeyPair
    _key: ec.EllipticCurvePrivateKey
    _certificate: x509.Certificate

    @classmethod
    def create(cls, directory: Path, name: str) -> Self:
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
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
        certificate = (
            _builder(subject, subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        files = KeyPair(directory / "ca.crt", directory / "ca.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(files.key, _pem(key))
        return cls(directory, files, key, certificate)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The authority that another process has created in `directory`."""
        files = KeyPair(directory / "ca.crt", directory / "ca.key")
        key = serialization.load_pem_private_key(files.key.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{files.key}: expected the elliptic curve key of a local cluster")
        return cls(directory, files, key, x509.load_pem_x509_certificate(files.certificate.read_bytes()))

    def issue(self, name: str, common_name: str, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()) -> KeyPair:
        """Sign a certificate for a client (user and groups as Kubernetes reads them) and, given hosts, for a server."""
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        files = KeyPair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(files.key, _pem(key))
        return files


def issue_pki(directory: Path, server_hosts: tuple[str, ...]) -> Pki:
    """Make an authority and everything that a control plane needs of it."""
    authority = Authority.create(directory, "gpuruntime local cluster")
    return Pki(
        authority=authority.files,
        apiserver=authority.issue("apiserver", "kube-apiserver", hosts=server_hosts),
        etcd=authority.issue("etcd", "etcd", hosts=server_hosts),
        admin=authority.issue("admin", "admin", groups=("system:masters",)),
        controller_manager=authority.issue("controller-manager", "system:kube-controller-manager"),
        scheduler=authority.issue("scheduler", "system:kube-scheduler"),
        kwok=authority.issue("kwok", "kwok", groups=("system:masters",)),
        kubelet_client=authority.issue("kubelet-client", KUBELET_CLIENT),
        tokens=_write_signing_key(directory, "tokens"),
    )


def _write_signing_key(directory: Path, name: str) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    files = KeyPair(directory / f"{name}.pub", directory / f"{name}.key")
    files.certificate.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    _write_private(files.key, _pem(key))
    return files


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
