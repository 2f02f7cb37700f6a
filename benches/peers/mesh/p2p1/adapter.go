// Copied by `run` beside the sources of factomd/p2p, which is P2P1: the names that the mesh node uses of P2P2.
package p2p

import (
	"net"
	"os"
	"sync"
	"time"
)

// Network is one node.
type Network struct {
	c       *Controller
	out     chan *In
	mu      sync.Mutex
	metrics map[string]ConnectionMetrics
}

// In is a parcel that came.
type In struct {
	Address string
	Payload []byte
}

// PeerMetrics as the new library names them.
type PeerMetrics struct{ MessagesSent, MessagesReceived, BytesSent, BytesReceived, Dropped uint64 }

const (
	RandomPeer = "<RANDOMPEER>"
	Broadcast  = "<BROADCAST>"
)

// ListenHost is where it listens; P2P1 listens everywhere.
var ListenHost string

// Open starts it.
func Open(name, listen string, peers string, fanout int) *Network {
	host, port, _ := net.SplitHostPort(listen)
	ListenHost = host
	TimeBetweenRedials = 2 * time.Second
	NumberPeersToBroadcast = fanout
	NumberPeersToConnect = 64
	ch := make(chan interface{}, 100)
	ci := ControllerInit{NodeName: name, Port: port, PeersFile: os.DevNull, Network: LocalNet, Exclusive: false, SeedURL: "", CmdLinePeers: peers, ConnectionMetricsChannel: ch}
	n := &Network{c: new(Controller).Init(ci), out: make(chan *In, 5000), metrics: map[string]ConnectionMetrics{}}
	n.c.StartNetwork()
	go func() {
		for m := range ch {
			if v, ok := m.(map[string]ConnectionMetrics); ok {
				n.mu.Lock()
				n.metrics = v
				n.mu.Unlock()
			}
		}
	}()
	go func() {
		for {
			m := <-n.c.FromNetwork
			if p, ok := m.(Parcel); ok {
				n.out <- &In{Address: p.Header.TargetPeer, Payload: p.Payload}
			}
		}
	}()
	return n
}

func (n *Network) Reader() chan *In { return n.out }
func (n *Network) Total() int       { return n.c.GetNumberOfConnections() }

// Sending routes a message.
type Sending struct {
	Peer    string
	Payload []byte
}

func NewSending(peer string, payload []byte) Sending { return Sending{peer, payload} }
func (n *Network) Send(s Sending) {
	p := NewParcel(CurrentNetwork, s.Payload)
	p.Header.Type = TypeMessage
	p.Header.TargetPeer = s.Peer
	BlockFreeChannelSend(n.c.ToNetwork, *p)
}
func (n *Network) GetPeerMetrics() map[string]PeerMetrics {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := map[string]PeerMetrics{}
	for k, m := range n.metrics {
		r[k] = PeerMetrics{uint64(m.MessagesSent), uint64(m.MessagesReceived), uint64(m.BytesSent), uint64(m.BytesReceived), 0}
	}
	return r
}
