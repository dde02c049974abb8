"""Knowledge bases of Azure AI Search, which search one or more knowledge sources."""
