module example.com/delay-queue/clients/go

go 1.19
