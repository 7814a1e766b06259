import io.pravega.local.InProcPravegaCluster;

/** A Pravega with several segment stores in one process: controller port, ZooKeeper port, segment store ports. */
public class PravegaCluster {
    public static void main(String[] arguments) throws Exception {
        int[] stores = new int[arguments.length - 2];
        for (int i = 0; i < stores.length; i++) {
            stores[i] = Integer.parseInt(arguments[i + 2]);
        }
        InProcPravegaCluster cluster = InProcPravegaCluster.builder()
            .isInProcController(true).controllerCount(1).restServerPort(0).enableRestServer(false)
            .isInProcSegmentStore(true).segmentStoreCount(stores.length).containerCount(4)
            .isInProcZK(true).zkHost("127.0.0.1").zkPort(Integer.parseInt(arguments[1]))
            .isInMemStorage(true).enableMetrics(false).enableAuth(false).enableTls(false)
            .build();
        cluster.setControllerPorts(new int[] {Integer.parseInt(arguments[0])});
        cluster.setSegmentStorePorts(stores);
        cluster.start();
        Thread.currentThread().join();
    }
}
