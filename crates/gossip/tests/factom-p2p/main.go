// A node of github.com/whosoup/factom-p2p that does what it is told on its standard input, and says
// what happens on its standard output. The tests of the crate `gossip` start it as the other end.
//
// Input, a line each:
//
//	send N SEED   broadcast N messages of 1 byte to 1 MiB, made from SEED
//	say TEXT      broadcast TEXT
//
// Output: "peers N" when their number changes, "got SHA256 LENGTH" for each message that it sees for the
// first time, "sent SHA256" for each that it sends, and "log TEXT" for what the library logs.
package main

import (
	"bufio"
	"crypto/sha256"
	"flag"
	"fmt"
	"math"
	"math/rand"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	p2p "github.com/whosoup/factom-p2p"
)

var output sync.Mutex

func tell(format string, values ...interface{}) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

// logLines is where the library's log goes.
type logLines struct{}

func (logLines) Write(text []byte) (int, error) {
	tell("log %s", string(text[:len(text)-1]))
	return len(text), nil
}

func main() {
	conf := p2p.DefaultP2PConfiguration()
	version := flag.Uint("version", 11, "protocol version: 9, 10 or 11")
	id := flag.Uint("id", 1, "the node's number")
	links := flag.Uint("links", 36, "links above which the node is full")
	relay := flag.Bool("relay", false, "broadcast again what is new")
	flag.StringVar(&conf.ListenPort, "port", "8108", "the port to listen on")
	flag.StringVar(&conf.Special, "dial", "", "endpoints to dial, separated by commas")
	flag.Parse()

	conf.Network = p2p.NetworkID(0x00f00b47)
	conf.NodeID = uint32(*id)
	conf.NodeName = fmt.Sprintf("go-%d", *id)
	conf.ProtocolVersion = uint16(*version)
	conf.BindIP = "127.0.0.1"
	conf.ListenLimit = 0
	conf.RedialInterval = time.Second
	conf.MaxPeers = *links
	conf.MaxIncoming = *links
	conf.Fanout = 64
	conf.ChannelCapacity = 10000
	conf.EnablePrometheus = false
	conf.PeerResendFilter = false
	logrus.SetOutput(logLines{})
	logrus.SetLevel(logrus.DebugLevel)

	network, err := p2p.NewNetwork(conf)
	if err == nil {
		err = network.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	go watchPeers(network)
	go receive(network, *relay)
	obey(network)
}

func watchPeers(network *p2p.Network) {
	last := -1
	for range time.Tick(20 * time.Millisecond) {
		if now := network.Total(); now != last {
			tell("peers %d", now)
			last = now
		}
	}
}

func receive(network *p2p.Network, relay bool) {
	seen := make(map[[32]byte]bool)
	for parcel := range network.Reader() {
		hash := sha256.Sum256(parcel.Payload)
		if seen[hash] {
			continue
		}
		seen[hash] = true
		tell("got %x %d", hash, len(parcel.Payload))
		if relay {
			network.BlockingSend(p2p.NewParcel(p2p.Broadcast, parcel.Payload))
		}
	}
}

// obey ends with its input, and the program with it.
func obey(network *p2p.Network) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var count int
		var seed int64
		var text string
		if _, err := fmt.Sscanf(lines.Text(), "send %d %d", &count, &seed); err == nil {
			random := rand.New(rand.NewSource(seed))
			for i := 0; i < count; i++ {
				// As many of each order of magnitude.
				payload := make([]byte, int(math.Exp2(random.Float64()*20)))
				random.Read(payload)
				broadcast(network, payload)
			}
		} else if _, err := fmt.Sscanf(lines.Text(), "say %s", &text); err == nil {
			broadcast(network, []byte(text))
		}
	}
}

func broadcast(network *p2p.Network, payload []byte) {
	tell("sent %x", sha256.Sum256(payload))
	network.BlockingSend(p2p.NewParcel(p2p.Broadcast, payload))
}
