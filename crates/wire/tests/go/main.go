// What servers of Go's net/http and of gorilla/websocket understand of bytes that a client sends: on each line of
// standard input the bytes of one connection, in hexadecimal digits, before the client is gone (behind a space those that
// wait for an answer); on each line of standard
// output what was understood, as JSON.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// One request, or one message of a WebSocket.
type piece struct {
	Kind string `json:"kind"`
	// The target of a request.
	Target string `json:"target"`
	// The body, or the message, in hexadecimal digits.
	Body string `json:"body"`
}

// Gives its bytes, of which the second part is sent only after an answer to the first, and then the end. What is
// written to it is kept as text.
type client struct {
	lock      sync.Mutex
	changed   *sync.Cond
	parts     []string
	answers   strings.Builder
	isStopped bool
	closed    chan struct{}
	once      sync.Once
}

func (c *client) Read(b []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.parts[0] == "" && len(c.parts) > 1 {
		for c.answers.Len() == 0 && !c.isStopped {
			c.changed.Wait()
		}
		if c.isStopped {
			return 0, os.ErrDeadlineExceeded
		}
		c.parts = c.parts[1:]
	}
	if c.parts[0] == "" {
		return 0, io.EOF
	}
	n := copy(b, c.parts[0])
	c.parts[0] = c.parts[0][n:]
	return n, nil
}

func (c *client) Write(b []byte) (int, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.answers.Write(b)
	c.changed.Broadcast()
	return len(b), nil
}

// The server ends a read with a time that has passed, and allows the next with none.
func (c *client) SetReadDeadline(at time.Time) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.isStopped = !at.IsZero() && at.Before(time.Now())
	c.changed.Broadcast()
	return nil
}

func (c *client) Close() error                     { c.once.Do(func() { close(c.closed) }); return nil }
func (c *client) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *client) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *client) SetDeadline(at time.Time) error   { return c.SetReadDeadline(at) }
func (c *client) SetWriteDeadline(time.Time) error { return nil }

// Gives one connection, and waits until that is closed.
type listener struct {
	client *client
	given  bool
}

func (l *listener) Accept() (net.Conn, error) {
	if l.given {
		<-l.client.closed
		return nil, io.EOF
	}
	l.given = true
	return l.client, nil
}
func (l *listener) Close() error   { return nil }
func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func understood(parts []string) (pieces []piece, answers string) {
	pieces = []piece{}
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	var serving sync.WaitGroup
	serve := func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		if websocket.IsWebSocketUpgrade(r) {
			socket, err := upgrader.Upgrade(w, r, nil)
			if err != nil {
				return
			}
			for {
				kind, message, err := socket.ReadMessage()
				if err != nil {
					socket.Close()
					return
				}
				name := map[int]string{websocket.TextMessage: "text", websocket.BinaryMessage: "binary"}[kind]
				pieces = append(pieces, piece{name, "", hex.EncodeToString(message)})
			}
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			pieces = append(pieces, piece{r.Method, r.RequestURI, hex.EncodeToString(body)})
		}
	}
	gone := &client{parts: parts, closed: make(chan struct{})}
	gone.changed = sync.NewCond(&gone.lock)
	server := http.Server{Handler: http.HandlerFunc(serve), ErrorLog: log.New(io.Discard, "", 0)}
	server.Serve(&listener{client: gone})
	serving.Wait()
	return pieces, gone.answers.String()
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		var parts []string
		for _, part := range strings.Fields(line) {
			bytes, err := hex.DecodeString(part)
			if err != nil {
				log.Fatal(err)
			}
			parts = append(parts, string(bytes))
		}
		pieces, answers := understood(parts)
		out.Encode(map[string]any{"pieces": pieces, "answers": answers})
	}
}
