#!/bin/sh
# Check the deployment files: each by the tool that knows its format, then all of them together
# against a running daemon (test_deploy.py). A tool that cannot be had is a line with SKIP.
# usage: tests/deploy/check.sh BINARY
set -eu
cd "$(dirname "$0")/../.."
binary=$1

missing=
for tool in yamllint:yamllint promtool:prometheus systemd-analyze:systemd shellcheck:shellcheck \
    strace:strace; do
    command -v "${tool%%:*}" >/dev/null 2>&1 || missing="$missing ${tool#*:}"
done
if [ -n "$missing" ] && [ "$(id -u)" -eq 0 ]; then
    echo "installing with apt:$missing"
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words is what is meant
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing ||
        echo "apt could not install all of:$missing"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0
failed=0

# try TOOL WHAT COMMAND...: run the command, which must end with 0, when the tool is there.
try() {
    tool=$1
    what=$2
    shift 2
    if ! command -v "$tool" >/dev/null 2>&1; then
        echo "$what: SKIP, $tool is not installed"
    elif "$@" >"$scratch/said" 2>&1; then
        echo "$what: ok"
        passed=$((passed + 1))
    else
        echo "$what: FAILED"
        cat "$scratch/said"
        failed=$((failed + 1))
    fi
}

yaml_rules='{extends: default, rules: {document-start: disable, line-length: {max: 100}}}'
try yamllint 'yamllint' yamllint --strict -d "$yaml_rules" deploy
try promtool 'promtool check config' promtool check config --lint-fatal deploy/prometheus.yml

# The program it starts is not installed here: the one that was built stands for it.
sed "s|^ExecStart=/usr/local/bin/attnd|ExecStart=$(realpath "$binary")|" deploy/attnd.service \
    >"$scratch/attnd.service"
try systemd-analyze 'systemd-analyze verify' \
    systemd-analyze verify --man=no "$scratch/attnd.service"
try systemd-analyze 'systemd-analyze security' \
    systemd-analyze security --offline=true --threshold=15 deploy/attnd.service
sed -n 's/^→ */    /p' "$scratch/said"

try kubernetes-validate 'kubernetes-validate' kubernetes-validate --strict deploy/kubernetes/*.yaml
if docker compose version >/dev/null 2>&1; then
    try docker 'docker compose config' docker compose -f deploy/compose.yaml config --quiet
else
    echo 'docker compose config: SKIP, docker compose is not installed'
fi
try shellcheck 'shellcheck' shellcheck deploy/*.sh tests/*.sh tests/*/*.sh .ci/run

log=$scratch/test_deploy.log
/usr/bin/python3 tests/deploy/test_deploy.py "$binary" >"$log" 2>&1 || broken=1
cat "$log"
line=$(sed -n 's/^together: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$log")
passed=$((passed + ${line% *} + 0))
failed=$((failed + ${line#* } + 0))
echo "deploy: $passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ -z "${broken:-}" ]
