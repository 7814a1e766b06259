#!/bin/bash
# Starts a node that listens on every address of the container, with the variables of Cassandra's own image.
set -euo pipefail
own=$(hostname -I | cut -d' ' -f1)
outside=${CASSANDRA_BROADCAST_ADDRESS:-$own}
mkdir -p /var/lib/cassandra
sed -e "s/\"listen_address\": \"[^\"]*\"/\"listen_address\": \"$own\"/" \
    -e "s/\"rpc_address\": \"[^\"]*\"/\"rpc_address\": \"0.0.0.0\", \"broadcast_rpc_address\": \"$outside\"/" \
    -e "s/\"seeds\": \"[^\"]*\"/\"seeds\": \"$own:7000\"/" \
    /opt/server/cassandra.yaml > /opt/server/own.yaml
# shellcheck disable=SC2046,SC2086
exec java $(cat /opt/server/server-options) -Xms${MAX_HEAP_SIZE:-512M} -Xmx${MAX_HEAP_SIZE:-512M} ${JVM_EXTRA_OPTS:-} \
  -javaagent:$(echo /opt/server/jars/jamm-*.jar) -cp '/opt/server/jars/*' -Dcassandra.config=file:///opt/server/own.yaml \
  -Dlogback.configurationFile=/opt/server/logback.xml -Dcassandra.storagedir=/var/lib/cassandra \
  org.apache.cassandra.service.CassandraDaemon
