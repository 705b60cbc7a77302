#!/usr/bin/env bash
# Installs the two stores from Debian's or Ubuntu's packages where they are missing. Starts nothing.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
command -v redis-server >/dev/null || missing+=(redis-server)
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "missing: ${missing[*]}. Install PostgreSQL 15 or later and Redis 7 or later with your system's packages." >&2
  exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)

# A package must not start a server of its own, nor make a cluster: Pawl starts private ones.
policy=/usr/sbin/policy-rc.d
made_policy=
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
  "${as_root[@]}" chmod +x "$policy"
  made_policy=1
fi
trap '[ -z "$made_policy" ] || "${as_root[@]}" rm -f "$policy"' EXIT

echo "installing ${missing[*]} ..." >&2
"${as_root[@]}" apt-get update -qq >/dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
