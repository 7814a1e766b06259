import io.pravega.local.InProcPravegaCluster;
import java.lang.reflect.Method;

/** A Pravega with several segment stores in one process: controller port, ZooKeeper port, segment store ports. */
public class PravegaCluster {
    public static void main(String[] arguments) throws Exception {
        int[] stores = new int[arguments.length - 2];
        for (int i = 0; i < stores.length; i++) {
            stores[i] = Integer.parseInt(arguments[i + 2]);
        }
        InProcPravegaCluster cluster = InProcPravegaCluster.builder()
            .isInProcController(true).controllerCount(1).restServerPort(0).enableRestServer(false)
            .isInProcSegmentStore(true).segmentStoreCount(stores.length).containerCount(2 * stores.length)
            .isInProcZK(true).zkHost("127.0.0.1").zkPort(Integer.parseInt(arguments[1])).zkUrl("localhost:" + arguments[1])
            .isInMemStorage(true).enableMetrics(false).enableAuth(false).enableTls(false)
            .build();
        cluster.setControllerPorts(new int[] {Integer.parseInt(arguments[0])});
        cluster.setSegmentStorePorts(stores);
        // What start() does, but the controller comes last. It divides the segments among the stores that it finds, and
        // divides them again when another comes; but these keep what they have in memory, each its own, and what was
        // moved would be lost.
        String[] steps = {"startLocalZK", "cleanUpZK", "startLocalSegmentStores", "startLocalControllers"};
        var field = InProcPravegaCluster.class.getDeclaredField("nodeServiceStarter");
        field.setAccessible(true);
        field.set(cluster, java.lang.reflect.Array.newInstance(field.getType().getComponentType(), stores.length));
        for (String step : steps) {
            Method method = InProcPravegaCluster.class.getDeclaredMethod(step);
            method.setAccessible(true);
            method.invoke(cluster);
        }
        Thread.currentThread().join();
    }
}
