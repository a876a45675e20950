#!/bin/sh
# hone make, interrupted a few times (more: tests/interrupt.sh 40); tests/interrupt.sh checks the results.
exec sh tests/interrupt.sh "${N:-3}"
