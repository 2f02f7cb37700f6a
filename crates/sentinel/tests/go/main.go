// Calls of grpc-go to a server of grpc-go, through a proxy and past it: what comes of a call has to be the same. Writes the
// port of its server, reads the address of the proxy in front of it, makes so many calls, and writes how many there
// were of each kind, as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Messages are bytes.
type raw struct{}

func (raw) Name() string                       { return "proto" }
func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }

// What a call sends, and what the server makes of it.
type plan struct {
	Kind string
	// Lengths of the messages that are sent, and that are answered.
	Sent     []int
	Answered []int
	Code     codes.Code
	Text     string
	Header   metadata.MD
	Trailer  metadata.MD
	Request  metadata.MD
	Gzip     bool
	Path     string
}

// Whether its client ends it, at its deadline or before.
func (p plan) isGivenUp() bool { return p.Kind == "late" || p.Kind == "reset" }

// What came of it.
type outcome struct {
	Messages [][]byte
	Code     codes.Code
	Text     string
	Header   metadata.MD
	Trailer  metadata.MD
}

// Calls that the server leaves open until it is told that their clients gave them up, and those of which it was.
var hanging, ended atomic.Int64

func filled(length int) []byte {
	message := make([]byte, length)
	for place := range message {
		message[place] = byte(place*7 + length)
	}
	return message
}

func serve(_ any, stream grpc.ServerStream) error {
	given, _ := metadata.FromIncomingContext(stream.Context())
	var made plan
	if err := gob.NewDecoder(strings.NewReader(given.Get("plan-bin")[0])).Decode(&made); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	for key, values := range made.Request {
		if !reflect.DeepEqual(given.Get(key), values) {
			return status.Errorf(codes.Internal, "metadata %q came as %q", values, given.Get(key))
		}
	}
	path, _ := grpc.MethodFromServerStream(stream)
	_, hasDeadline := stream.Context().Deadline()
	stream.SetTrailer(metadata.Join(made.Trailer, metadata.Pairs("path", path, "deadline", strconv.FormatBool(hasDeadline))))
	if err := stream.SetHeader(made.Header); err != nil {
		return err
	}
	for received := 0; ; received++ {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == io.EOF && received == len(made.Sent) {
			break
		}
		if err != nil || received == len(made.Sent) || !bytes.Equal(message, filled(made.Sent[received])) {
			return status.Errorf(codes.Internal, "message %d of %d came with %d bytes: %v", received, len(made.Sent), len(message), err)
		}
		if made.Kind == "echo" {
			if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
	}
	for _, length := range made.Answered {
		message := filled(length)
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
	if made.isGivenUp() {
		hanging.Add(1)
		<-stream.Context().Done()
		ended.Add(1)
		return stream.Context().Err()
	}
	return status.Error(made.Code, made.Text)
}

func call(connection *grpc.ClientConn, made plan) outcome {
	var written strings.Builder
	if err := gob.NewEncoder(&written).Encode(made); err != nil {
		log.Fatal(err)
	}
	given := metadata.Join(made.Request, metadata.Pairs("plan-bin", written.String()))
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(context.Background(), given))
	if made.Kind == "late" {
		ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
	}
	defer cancel()
	var options []grpc.CallOption
	if made.Gzip {
		options = append(options, grpc.UseCompressor(gzip.Name))
	}
	var came outcome
	finish := func(err error) outcome {
		came.Code = status.Code(err)
		if !made.isGivenUp() {
			came.Text = status.Convert(err).Message()
		}
		return came
	}
	stream, err := connection.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, made.Path, options...)
	if err != nil {
		return finish(err)
	}
	receive := func() error {
		var message []byte
		err := stream.RecvMsg(&message)
		if err == nil {
			came.Messages = append(came.Messages, message)
		}
		return err
	}
	for _, length := range made.Sent {
		message := filled(length)
		if stream.SendMsg(&message) != nil {
			break
		}
		if made.Kind == "echo" {
			if err := receive(); err != nil {
				return finish(err)
			}
		}
	}
	stream.CloseSend()
	if made.Kind == "reset" {
		for range made.Answered {
			if err := receive(); err != nil {
				return finish(err)
			}
		}
		cancel()
	}
	for err = receive(); err == nil; err = receive() {
	}
	if err == io.EOF {
		err = nil
	}
	if !made.isGivenUp() {
		came.Header, _ = stream.Header()
		came.Trailer = stream.Trailer()
		// A server of HTTP says when it answered.
		delete(came.Header, "date")
		delete(came.Trailer, "date")
	}
	return finish(err)
}

func generated(random *rand.Rand) plan {
	letters := "abcdefghijklmnopqrstuvwxyz0123456789_.-"
	text := func(alphabet string, length int) string {
		made := make([]byte, length)
		for place := range made {
			made[place] = alphabet[random.Intn(len(alphabet))]
		}
		return string(made)
	}
	pairs := func() metadata.MD {
		made := metadata.MD{}
		for range random.Intn(4) {
			if random.Intn(2) == 0 {
				key := "x-" + text(letters, 1+random.Intn(20))
				made.Append(key, text(letters+" ~!@#$%^&*()[]{}:;'\",<>/?", random.Intn(60))+"z")
			} else {
				bytes := make([]byte, random.Intn(100))
				random.Read(bytes)
				made.Append("x-"+text(letters[:26], 1+random.Intn(9))+"-bin", string(bytes))
			}
		}
		return made
	}
	length := func() int {
		switch random.Intn(40) {
		case 0:
			return 1 << 20
		case 1, 2:
			return 60<<10 + random.Intn(10<<10)
		case 3:
			return 0
		}
		return random.Intn(2000)
	}
	lengths := func(most int) []int {
		made := []int{}
		for range random.Intn(most + 1) {
			made = append(made, length())
		}
		return made
	}
	made := plan{
		Sent: []int{length()}, Header: pairs(), Trailer: pairs(), Request: pairs(), Gzip: random.Intn(8) == 0,
		Path: fmt.Sprintf("/%s.%s/%s", text(letters[:26], 5), text(letters[:26], 5), text(letters[:26], 5)),
	}
	switch random.Intn(20) {
	case 0:
		made.Kind = "late"
	case 1:
		made.Kind, made.Answered = "reset", lengths(3)
	case 2, 3, 4:
		made.Kind, made.Sent = "echo", lengths(6)
	case 5, 6:
		made.Kind, made.Sent, made.Answered = "client stream", lengths(6), []int{length()}
	case 7, 8, 9:
		made.Kind, made.Answered = "server stream", lengths(8)
	case 10, 11, 12:
		made.Kind, made.Code = "error", codes.Code(1+random.Intn(16))
		made.Text = text("abc %\n\"äß日本", random.Intn(200))
	default:
		made.Kind, made.Answered = "unary", []int{length()}
	}
	return made
}

func main() {
	log.SetFlags(0)
	count, _ := strconv.Atoi(os.Args[1])
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(serve))
	go server.Serve(listener)
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	var proxy string
	if _, err := fmt.Scanln(&proxy); err != nil {
		log.Fatal(err)
	}
	var connections []*grpc.ClientConn
	for _, address := range []string{listener.Addr().String(), proxy} {
		connection, err := grpc.NewClient("passthrough:///"+address,
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
		if err != nil {
			log.Fatal(err)
		}
		connections = append(connections, connection)
	}
	kinds := map[string]int{}
	var wrong atomic.Int64
	plans := make(chan plan)
	var callers sync.WaitGroup
	for range 8 {
		callers.Add(1)
		go func() {
			defer callers.Done()
			for made := range plans {
				direct, through := call(connections[0], made), call(connections[1], made)
				// A server whose deadline is over before its client's resets the stream, which the client takes for a cancellation
				// unless its own is over by then (grpc-go's handleRSTStream).
				if made.Kind == "late" && direct.Code == codes.Canceled {
					direct.Code = codes.DeadlineExceeded
				}
				if !reflect.DeepEqual(direct, through) && wrong.Add(1) <= 3 {
					shown := func(came outcome) string {
						lengths := []int{}
						for _, message := range came.Messages {
							lengths = append(lengths, len(message))
						}
						return fmt.Sprintf("%v %q, messages %v, header %q, trailer %q", came.Code, came.Text, lengths, came.Header, came.Trailer)
					}
					log.Printf("%+v\n past the proxy: %s\n through it: %s", made, shown(direct), shown(through))
				}
			}
		}()
	}
	random := rand.New(rand.NewSource(33))
	for range count {
		made := generated(random)
		kinds[made.Kind]++
		plans <- made
	}
	close(plans)
	callers.Wait()
	// The server is told of every call that it had when its client gave it up.
	for ended.Load() < hanging.Load() {
		time.Sleep(10 * time.Millisecond)
	}
	if wrong.Load() > 0 {
		log.Fatalf("%d calls ended in another way", wrong.Load())
	}
	json.NewEncoder(os.Stdout).Encode(kinds)
}
