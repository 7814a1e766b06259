#!/bin/bash
# Starts a broker with the settings in KAFKA_… variables, as Kafka's own image does: KAFKA_A_B__C___D is a.b_c-d.
set -euo pipefail
settings=/opt/server/server.properties
env | grep '^KAFKA_' | grep -vE '^KAFKA_(HEAP_OPTS|OPTS)=' | while IFS='=' read -r name value; do
  name=$(tr '[:upper:]' '[:lower:]' <<< "${name#KAFKA_}" | sed -e 's/___/-/g' -e 's/__/\x01/g' -e 's/_/./g' -e 's/\x01/_/g')
  printf '%s=%s\n' "$name" "${value//\\/\\\\}"
done > "$settings"
grep -q '^log.dirs=' "$settings" || echo 'log.dirs=/var/lib/kafka' >> "$settings"
java=(java -cp '/opt/server/jars/*' -Dorg.slf4j.simpleLogger.defaultLogLevel=warn)
[ -e /var/lib/kafka/meta.properties ] || "${java[@]}" kafka.tools.StorageTool format -t "$CLUSTER_ID" -c "$settings"
# shellcheck disable=SC2086
exec "${java[@]}" ${KAFKA_HEAP_OPTS:-} -XX:+UseSerialGC -XX:TieredStopAtLevel=1 kafka.Kafka "$settings"
