package main

import (
	"context"
	"flag"
	"net"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const votingName = "demo.Voting"

// votingServer counts votes.
type votingServer interface {
	Vote(ctx context.Context, emoji *wrapperspb.StringValue) (*wrapperspb.UInt64Value, error)
}

// votingService is what a compiler would make of
//
//	service Voting { rpc Vote(google.protobuf.StringValue) returns (google.protobuf.UInt64Value); }
var votingService = grpc.ServiceDesc{
	ServiceName: votingName, HandlerType: (*votingServer)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Vote", Handler: func(server any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var emoji wrapperspb.StringValue
		if err := decode(&emoji); err != nil {
			return nil, err
		}
		return server.(votingServer).Vote(ctx, &emoji)
	}}},
}

type votes struct{ count atomic.Uint64 }

func (v *votes) Vote(context.Context, *wrapperspb.StringValue) (*wrapperspb.UInt64Value, error) {
	return wrapperspb.UInt64(v.count.Add(1)), nil
}

// voting serves gRPC.
func voting(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":8080", "address to serve on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	server.RegisterService(&votingService, &votes{})
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	return server.Serve(listener)
}

// ballot casts votes at a voting service.
type ballot struct{ conn *grpc.ClientConn }

func newBallot(address string) (*ballot, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return &ballot{conn}, err
}

// vote votes, and returns the number of votes so far.
func (b *ballot) vote(ctx context.Context, emoji string) (uint64, error) {
	var count wrapperspb.UInt64Value
	err := b.conn.Invoke(ctx, "/"+votingName+"/Vote", wrapperspb.String(emoji), &count)
	return count.GetValue(), err
}
