import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileReader;
import java.util.ArrayList;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Debezium's engine, which writes every change into Kafka: java -cp 'jars/*' Engine.java engine.properties BROKERS */
public class Engine {
    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        try (var file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        var kafka = new Properties();
        kafka.put("bootstrap.servers", arguments[1]);
        kafka.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        kafka.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        var producer = new KafkaProducer<String, String>(kafka);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                System.out.println("the engine has ended: " + message + (error == null ? "" : " " + error));
                if (error != null) {
                    error.printStackTrace();
                }
            })
            .notifying((events, committer) -> {
                var sent = new ArrayList<Future<RecordMetadata>>();
                for (var event : events) {
                    sent.add(producer.send(new ProducerRecord<>(event.destination(), event.key(), event.value())));
                }
                try {
                    for (var one : sent) {
                        one.get();
                    }
                } catch (java.util.concurrent.ExecutionException error) {
                    throw new RuntimeException(error);
                }
                for (var event : events) { // only what Kafka has: a restart sends the rest again
                    committer.markProcessed(event);
                }
                committer.markBatchFinished();
            })
            .build();
        engine.run();
        producer.close();
        System.exit(1); // it runs until it is killed
    }
}
