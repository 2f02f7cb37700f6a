// A node of a mesh on the Go library github.com/whosoup/factom-p2p, for `txmesh compare --external`.
// It is told what to do as docs/mesh.md describes: a configuration in JSON, then a line of JSON for each
// order. The traffic is that of config/mesh/mix-app.toml, four workers share one table of what was seen,
// as in the load generator of 2020; queues hold what --queue says.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	p2p "github.com/whosoup/factom-p2p"
)

type object = map[string]interface{}

type config struct {
	Node     uint16
	Nodes    int
	Listen   string
	Protocol string
	Fanout   uint
	Queue    uint
	Load     []struct{ Profile, Rate, Duration string }
	Seed     int64
	Control  string
}

// kind is a message of the mix: its size, whether it is relayed, what answers it, what it counts for.
type kind struct {
	size                  int
	relay                 bool
	answer                byte
	transactions, entries uint64
}

var kinds = map[byte]kind{
	1: {256, true, 0, 0, 0}, 2: {179, true, 0, 0, 0}, 3: {175, true, 0, 0, 0},
	4: {201, true, 0, 1, 0}, 5: {137, true, 0, 1, 0}, 6: {538, true, 0, 1, 1},
	7: {385, true, 0, 0, 0}, 8: {250, true, 0, 1, 1}, 9: {56, true, 10, 0, 0},
	10: {538, false, 0, 0, 0}, 11: {15, true, 12, 0, 0}, 12: {785, false, 0, 0, 0},
}

const missingProbability = 0.7008

type counters struct {
	Offered         uint64 `json:"offered"`
	Made            uint64 `json:"made"`
	MadeForAll      uint64 `json:"made_for_all"`
	Requests        uint64 `json:"requests"`
	Answers         uint64 `json:"answers"`
	FirstSeen       uint64 `json:"first_seen"`
	FirstSeenForAll uint64 `json:"first_seen_for_all"`
	Duplicates      uint64 `json:"duplicates"`
	Transactions    uint64 `json:"transactions"`
	Entries         uint64 `json:"entries"`
	ParcelsOut      uint64 `json:"parcels_out"`
	Writes          uint64 `json:"writes"`
	BytesOut        uint64 `json:"bytes_out"`
	ParcelsIn       uint64 `json:"parcels_in"`
	Reads           uint64 `json:"reads"`
	BytesIn         uint64 `json:"bytes_in"`
	PayloadIn       uint64 `json:"payload_in"`
	MessagesIn      uint64 `json:"messages_in"`
	DroppedFull     uint64 `json:"dropped_full"`
	CpuNs           uint64 `json:"cpu_ns"`
}

type node struct {
	conf    config
	network *p2p.Network
	control net.Conn
	saying  sync.Mutex

	mutex    sync.Mutex
	origin   time.Time
	sequence uint64
	random   *rand.Rand
	seen     map[[32]byte]struct{}
	counts   counters
	told     counters
	latency  map[uint64]uint64
	lateness map[uint64]uint64
	stop     chan struct{}

	// Parcels read when the runner last asked, and when they last were more than before.
	asked   uint64
	changed time.Time
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	path := flag.String("config", "", "the node's configuration")
	flag.Parse()
	text, err := os.ReadFile(*path)
	check(err)
	n := &node{
		seen:     map[[32]byte]struct{}{},
		latency:  map[uint64]uint64{},
		lateness: map[uint64]uint64{},
		stop:     make(chan struct{}),
	}
	check(json.Unmarshal(text, &n.conf))
	n.random = rand.New(rand.NewSource(n.conf.Seed + int64(n.conf.Node)))
	listen := freePort(n.conf.Listen)
	n.control, err = net.Dial("unix", n.conf.Control)
	check(err)
	n.say("hello", object{"node": n.conf.Node, "listen": listen})
	n.obey(listen)
}

// freePort is taken by the library a moment later.
func freePort(address string) string {
	listener, err := net.Listen("tcp", address)
	check(err)
	defer listener.Close()
	return listener.Addr().String()
}

func (n *node) say(name string, word object) {
	line, err := json.Marshal(object{name: word})
	check(err)
	n.saying.Lock()
	defer n.saying.Unlock()
	n.control.Write(append(line, '\n'))
}

// obey ends with its input.
func (n *node) obey(listen string) {
	lines := bufio.NewScanner(n.control)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var order struct {
			Join  *struct{ Peers []string }
			Start *struct {
				Origin uint64 `json:"origin_unix_ns"`
			}
			Stop, Finish *struct{}
			Status       *struct{ Round uint64 }
		}
		check(json.Unmarshal(lines.Bytes(), &order))
		switch {
		case order.Join != nil:
			n.join(listen, order.Join.Peers)
		case order.Start != nil:
			n.start(time.Unix(0, int64(order.Start.Origin)))
		case order.Stop != nil:
			close(n.stop)
		case order.Status != nil:
			n.say("status", object{"round": order.Status.Round, "queued": n.underWay()})
		case order.Finish != nil:
			second := uint64(time.Since(n.origin) / time.Second)
			n.say("done", object{"row": n.row(second), "status": object{}})
			return
		}
	}
}

// underWay is what waits for the workers, and not zero before nothing has come for longer than a second: the
// library collects its counters of bytes and calls once a second, so they are whole only then.
func (n *node) underWay() int {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.counts.ParcelsIn != n.asked {
		n.asked, n.changed = n.counts.ParcelsIn, time.Now()
	}
	if time.Since(n.changed) > 1200*time.Millisecond {
		return len(n.network.Reader())
	}
	return len(n.network.Reader()) + 1
}

func (n *node) join(listen string, peers []string) {
	logrus.SetOutput(os.Stderr)
	logrus.SetLevel(logrus.ErrorLevel)
	host, port, _ := net.SplitHostPort(listen)
	version, _ := strconv.Atoi(strings.TrimPrefix(n.conf.Protocol, "v"))
	conf := p2p.DefaultP2PConfiguration()
	conf.Network = p2p.NetworkID(0x00f00b47)
	conf.NodeID = uint32(n.conf.Node) + 1
	conf.NodeName = fmt.Sprintf("go-%d", n.conf.Node)
	conf.ProtocolVersion = uint16(version)
	conf.BindIP = host
	conf.ListenPort = port
	conf.ListenLimit = 0
	conf.RedialInterval = time.Second
	conf.Fanout = n.conf.Fanout
	conf.ChannelCapacity = n.conf.Queue
	conf.EnablePrometheus = false
	conf.Special = strings.Join(peers[:n.conf.Node], ",")
	network, err := p2p.NewNetwork(conf)
	check(err)
	check(network.Run())
	n.network = network
	go n.watch()
	for worker := 0; worker < 4; worker++ {
		go n.receive()
	}
}

// watch says how many links there are; whose they are the library does not tell.
func (n *node) watch() {
	last := -1
	for range time.Tick(20 * time.Millisecond) {
		total := n.network.Total()
		if total == last {
			continue
		}
		last = total
		peers := []int{}
		for peer := 0; peer < n.conf.Nodes && len(peers) < total; peer++ {
			if peer != int(n.conf.Node) {
				peers = append(peers, peer)
			}
		}
		n.say("links", object{"peers": peers})
	}
}

func (n *node) start(origin time.Time) {
	n.mutex.Lock()
	n.origin = origin
	n.mutex.Unlock()
	n.row(0)
	go func() {
		for second := uint64(0); ; second++ {
			time.Sleep(time.Until(origin.Add(time.Duration(second+1) * time.Second)))
			n.say("row", n.row(second))
		}
	}()
	if n.conf.Node == 0 {
		go n.offer()
	}
}

// offer knows one profile: one rate.
func (n *node) offer() {
	rate, err := strconv.ParseFloat(strings.TrimSuffix(n.conf.Load[0].Rate, "/s"), 64)
	check(err)
	duration, err := time.ParseDuration(n.conf.Load[0].Duration)
	check(err)
	end := uint64(rate * duration.Seconds())
	for i := uint64(0); i < end; i++ {
		at := time.Duration(float64(i) / rate * float64(time.Second))
		if wait := time.Until(n.origin.Add(at)); wait > 0 {
			select {
			case <-n.stop:
				n.say("offered", object{})
				return
			case <-time.After(wait):
			}
		}
		n.mutex.Lock()
		n.counts.Offered++
		n.lateness[uint64(time.Since(n.origin.Add(at))/time.Microsecond)]++
		place := n.random.Float64()
		n.mutex.Unlock()
		switch {
		case place < 0.9910192931534915:
			n.make(5, 1, 6, 1)(at, "")
		case place < 0.9910192931534915+0.0076831142222981:
			n.make(4, 1, 6, 1)(at, "")
		default:
			n.make(8, 1)(at, "")
		}
	}
	n.say("offered", object{})
}

// make gives messages of these types to one random peer, or to the one that is named.
func (n *node) make(types ...byte) func(due time.Duration, peer string) {
	return func(due time.Duration, peer string) {
		if peer == "" {
			peer = p2p.RandomPeer
		}
		for _, tag := range types {
			message := make([]byte, kinds[tag].size)
			n.mutex.Lock()
			n.random.Read(message)
			sequence := n.sequence
			n.sequence++
			n.counts.Made++
			if kinds[tag].relay {
				n.counts.MadeForAll++
			}
			n.mutex.Unlock()
			var number [8]byte
			message[0] = tag
			binary.BigEndian.PutUint16(message[1:], n.conf.Node)
			binary.BigEndian.PutUint64(number[:], sequence)
			copy(message[3:9], number[2:])
			binary.BigEndian.PutUint64(number[:], uint64(due/time.Microsecond))
			copy(message[9:15], number[2:])
			n.network.Send(p2p.NewParcel(peer, message))
		}
	}
}

func (n *node) receive() {
	for parcel := range n.network.Reader() {
		hash := sha256.Sum256(parcel.Payload)
		tag := parcel.Payload[0]
		about := kinds[tag]
		n.mutex.Lock()
		n.counts.ParcelsIn++
		n.counts.MessagesIn++
		n.counts.PayloadIn += uint64(len(parcel.Payload))
		if _, again := n.seen[hash]; again {
			n.counts.Duplicates++
			n.mutex.Unlock()
			continue
		}
		n.seen[hash] = struct{}{}
		n.counts.FirstSeen++
		n.counts.Transactions += about.transactions
		n.counts.Entries += about.entries
		now := time.Since(n.origin)
		asks := n.conf.Node == 0 && tag == 1 && n.random.Float64() < missingProbability
		if about.relay {
			n.counts.FirstSeenForAll++
			n.note(parcel.Payload, now)
		}
		if about.answer != 0 {
			n.counts.Answers++
		}
		if asks {
			n.counts.Requests++
		}
		n.mutex.Unlock()
		if about.relay {
			n.network.Send(p2p.NewParcel(p2p.Broadcast, parcel.Payload))
		}
		if about.answer != 0 {
			n.make(about.answer)(now, parcel.Address)
		}
		if asks {
			n.make(9)(now, "")
		}
	}
}

// note counts the latency in steps of 1 %, so that there are few.
func (n *node) note(message []byte, now time.Duration) {
	var number [8]byte
	copy(number[2:], message[9:15])
	latency := uint64(now/time.Microsecond) - binary.BigEndian.Uint64(number[:])
	step := uint64(1)
	for latency/step >= 128 {
		step *= 2
	}
	n.latency[latency/step*step]++
}

func (n *node) row(second uint64) object {
	var metrics map[string]p2p.PeerMetrics
	if n.network != nil {
		metrics = n.network.GetPeerMetrics()
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	now := n.counts
	for _, peer := range metrics {
		// The library counts calls, not parcels; V11 makes two for each parcel that it writes.
		now.Writes += peer.MessagesSent
		now.Reads += peer.MessagesReceived
		now.BytesOut += peer.BytesSent
		now.BytesIn += peer.BytesReceived
		now.DroppedFull += peer.Dropped
	}
	now.ParcelsOut = now.Writes
	if n.conf.Protocol == "v11" {
		now.ParcelsOut /= 2
	}
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	now.CpuNs = uint64(usage.Utime.Nano() + usage.Stime.Nano())
	row := object{
		"second":      second,
		"counters":    since(now, n.told),
		"links":       len(metrics),
		"latency_us":  pairs(n.latency),
		"lateness_us": pairs(n.lateness),
	}
	n.told = now
	n.latency, n.lateness = map[uint64]uint64{}, map[uint64]uint64{}
	return row
}

func since(now, then counters) map[string]uint64 {
	both := [2]map[string]uint64{}
	for place, counts := range []counters{now, then} {
		text, err := json.Marshal(counts)
		check(err)
		check(json.Unmarshal(text, &both[place]))
	}
	for name, before := range both[1] {
		if both[0][name] >= before {
			both[0][name] -= before
		}
	}
	return both[0]
}

func pairs(histogram map[uint64]uint64) [][2]uint64 {
	pairs := [][2]uint64{}
	for value, times := range histogram {
		pairs = append(pairs, [2]uint64{value, times})
	}
	return pairs
}
