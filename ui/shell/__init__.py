"""What all pages share: navigation, theme, style, and showing text that came from elsewhere.

theme        Streamlit's theme options, and the colours of states on charts and graphs
style        the one style sheet
navigation   the pages, their addresses, and going from one to another
text         text of any origin as plain text, wherever Streamlit would read Markdown or HTML
blocks       small pieces of HTML: chips, facts, tables
telling      errors and outcomes, readable
"""
