package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
)

// greeter speaks first, as servers of SMTP, MySQL or SSH do: nobody can tell by
// the client's first bytes what is spoken, as there are none.
func greeter(ctx context.Context, flags *flag.FlagSet, args []string) error {
	listen := flags.String("listen", ":4000", "address to serve on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pod, err := os.Hostname()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(conn, "hello from", pod) // fits into any buffer of the kernel
		conn.Close()
	}
}
