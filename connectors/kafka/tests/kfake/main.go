// Runs franz-go's kfake, an implementation of Kafka's protocol that is not Apache's, until its input ends.
// Prints its address.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.ListenAddrs()[0])
	io.Copy(io.Discard, os.Stdin)
}
