// google.golang.org/grpc, the same greeter: server PORT.
//
// HelloRequest and HelloReply are one string with number 1, which is what a StringValue is on the
// wire: so that nothing has to be generated. The service is described as generated code does it.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const messages = 1000 // of ItKeepsReplying with the name "many"

func greet(request *wrapperspb.StringValue) *wrapperspb.StringValue {
	return &wrapperspb.StringValue{Value: "Hello, " + request.Value}
}

func sayHello(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := new(wrapperspb.StringValue)
	if err := decode(request); err != nil {
		return nil, err
	}
	return greet(request), nil
}

func itKeepsReplying(_ any, stream grpc.ServerStream) error {
	request := new(wrapperspb.StringValue)
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	count := 1
	if request.Value == "many" {
		count = messages
	}
	for range count {
		if err := stream.SendMsg(greet(request)); err != nil {
			return err
		}
	}
	return nil
}

// each reads requests to their end.
func each(stream grpc.ServerStream, use func(*wrapperspb.StringValue) error) error {
	for {
		request := new(wrapperspb.StringValue)
		if err := stream.RecvMsg(request); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := use(request); err != nil {
			return err
		}
	}
}

func itKeepsTalking(_ any, stream grpc.ServerStream) error {
	count := 0
	err := each(stream, func(*wrapperspb.StringValue) error { count++; return nil })
	if err != nil {
		return err
	}
	return stream.SendMsg(&wrapperspb.StringValue{Value: fmt.Sprintf("Hello to all %d", count)})
}

func streamHellos(_ any, stream grpc.ServerStream) error {
	return each(stream, func(request *wrapperspb.StringValue) error {
		return stream.SendMsg(greet(request))
	})
}

var greeter = grpc.ServiceDesc{
	ServiceName: "helloworld.Greeter",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "SayHello", Handler: sayHello}},
	Streams: []grpc.StreamDesc{
		{StreamName: "ItKeepsTalking", Handler: itKeepsTalking, ClientStreams: true},
		{StreamName: "ItKeepsReplying", Handler: itKeepsReplying, ServerStreams: true},
		{StreamName: "StreamHellos", Handler: streamHellos, ServerStreams: true, ClientStreams: true},
	},
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := grpc.NewServer()
	server.RegisterService(&greeter, struct{}{})
	fmt.Println("serving on", listener.Addr())
	fmt.Fprintln(os.Stderr, server.Serve(listener))
	os.Exit(1)
}
